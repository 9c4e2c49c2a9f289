"""The settings of the shop. `DATABASE_URL` names a PostgreSQL server; without it all is SQLite."""

import os
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
SECRET_KEY = os.environ.get("SECRET_KEY", "only-for-this-example")
DEBUG = True
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_tasks",
    "onbeat.ext.django",
    "shop",
]

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.db"},
}
ONBEAT = {"store": f"sqlite:///{FOLDER / 'onbeat.db'}"}
TASKS = {
    "default": {
        "BACKEND": "onbeat.ext.django.tasks_backend.OnbeatBackend",
        "QUEUES": [],
        "OPTIONS": {"timeout": "1m"},
    },
}

if "DATABASE_URL" in os.environ:
    url = urlsplit(os.environ["DATABASE_URL"])
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "HOST": url.hostname,
        "PORT": url.port,
        "USER": url.username,
        "PASSWORD": url.password or "",
    }
    ONBEAT = {"database": "default"}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
