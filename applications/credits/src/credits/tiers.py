"""How many free credits a month a new user gets, by e-mail address."""

import re
from typing import Final

from credits.config import Config

SCHOOLS: Final = re.compile(
    r"\.edu$"
    r"|\.(edu|ac|sch|school)\.[a-z]{2}$"
    r"|\.k12\.[a-z]{2}\.us$"
    r"|(^|\.)education\.[a-z]{2,3}\.[a-z]{2}$",
    re.ASCII,
)
"""Schools and universities: uni.edu, ox.ac.uk, hill.sch.uk, a.k12.ca.us, education.gov.au."""


def limit_for(email: str, config: Config) -> int:
    """A domain of its own limit comes first, then schools, then everybody."""
    domain = email.rpartition("@")[2].strip().lower()
    if domain in config.domains:
        return config.domains[domain]
    return config.educator if SCHOOLS.search(domain) else config.regular
