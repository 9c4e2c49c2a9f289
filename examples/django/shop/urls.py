"""`POST /orders`, and the admin with the jobs of the shop."""

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import confirm


@csrf_exempt
@require_POST
def add_order(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        job = confirm.send(order.id)
        if request.POST["item"] == "nothing":
            raise ValueError("nothing cannot be ordered")
    return JsonResponse({"order": order.id, "job": job.id})


urlpatterns = [path("orders", add_order), path("admin/", admin.site.urls)]
