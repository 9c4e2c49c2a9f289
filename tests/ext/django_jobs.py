"""Tasks of Django, for test_django.py: they must be defined at the level of a module."""

from django_tasks import task

from onbeat.ext.django import beat


@beat.task(isolation="process")
def count_alone() -> int:
    from shop.models import Order

    return int(Order.objects.count())


@task(takes_context=True)
async def count(context, number: int, word: str) -> str:
    return f"{word * number} in attempt {context.attempt}"


@task
def divide(a: int, b: int) -> float:
    return a / b
