"""Found by Onbeat: `tasks.py` of every installed app."""

from django_tasks import task

from onbeat import daily
from onbeat.ext.django import beat
from shop.models import Order


@beat.task("order.confirm", queue="mail")
def confirm(order: int) -> str:
    Order.objects.filter(id=order).update(confirmed=True)
    return f"order {order} is confirmed"


@beat.schedule(daily("03:00", tz="Europe/Berlin"), key="shop.count")
async def count_orders() -> int:
    return await Order.objects.acount()


@task(queue_name="reports")
def report(year: int) -> str:
    """A task in the form of Django 6, which `django_tasks` brings to Django 5."""
    return f"{Order.objects.count()} orders in {year}"
