"""A model without a table, by which the admin lists jobs and Django keeps their permissions."""

from typing import ClassVar

from django.db import models


class JobRecord(models.Model):
    """Its rows are the jobs of the store, which the admin asks Onbeat for."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions: ClassVar = [
            ("view_job", "Can view jobs"),
            ("retry_job", "Can retry jobs"),
            ("cancel_job", "Can cancel jobs"),
        ]
        verbose_name = "job"
        verbose_name_plural = "jobs"

    def __str__(self) -> str:
        return f"job {self.pk}"
