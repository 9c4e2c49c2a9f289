"""What `onbeat up backoffice.service:beat` runs: the program of this environment."""

import os

from backoffice.app import build
from backoffice.config import read_config

program = build(read_config(os.environ))
beat = program.beat
