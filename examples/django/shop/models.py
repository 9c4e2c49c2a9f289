"""Orders."""

from django.db import models


class Order(models.Model):
    """What somebody ordered, and whether a mail has confirmed it."""

    item = models.CharField(max_length=100)
    confirmed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.item
