"""The jobs of the store in the admin: to look at, and to retry and cancel by permission."""

from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from onbeat.ext.django import beat
from onbeat.ext.django.models import JobRecord
from onbeat.model.errors import NotFound, OnbeatError
from onbeat.model.job import JobState
from onbeat.types import JobFilters

PAGE: Final = 50
FILTERS: Final = ("state", "task", "queue", "error")
ACTIONS: Final = {"retry": "{} is retried.", "cancel": "{} is cancelled."}


@admin.register(JobRecord)
class JobAdmin(admin.ModelAdmin):
    """Asks Onbeat instead of a table. Nothing is added, changed or deleted here."""

    actions: ClassVar = None

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "view")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, "view")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[Any]:
        guarded = self.admin_site.admin_view
        name = "onbeat_jobrecord"
        return [
            path("", guarded(self.list_view), name=f"{name}_changelist"),
            path("<str:id>/", guarded(self.job_view), name=f"{name}_change"),
            path(
                "<str:id>/<str:action>/",
                guarded(require_POST(self.action_view)),
                name=f"{name}_action",
            ),
        ]

    def list_view(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "view")
        given = {name: request.GET[name] for name in FILTERS if request.GET.get(name)}
        cursor: Any = request.GET.get("cursor")
        page, problem = None, None
        try:
            filters: JobFilters = {**given}  # type: ignore[typeddict-item]
            page = beat.jobs.page(limit=PAGE, cursor=cursor, **filters)
        except OnbeatError as error:
            problem = str(error)
        following = request.GET.copy()
        if page is not None and page.cursor is not None:
            following["cursor"] = page.cursor
        return self.answer(
            request,
            "jobs.html",
            title="Jobs",
            page=page,
            problem=problem,
            given=given,
            states=list(JobState),
            following=following.urlencode() if page is not None and page.cursor else None,
        )

    def job_view(self, request: HttpRequest, id: str) -> HttpResponse:
        self.require(request, "view")
        try:
            job, why = beat.jobs.get(id), beat.jobs.why(id)
        except NotFound as error:
            raise Http404(str(error)) from error
        return self.answer(
            request,
            "job.html",
            title=f"Job {id}",
            job=job,
            shown=job.to_dict(),
            why=why,
            may_retry=self.may(request, "retry")
            and job.state in {JobState.FAILED, JobState.CANCELLED},
            may_cancel=self.may(request, "cancel")
            and job.state in {JobState.WAITING, JobState.RUNNING},
        )

    def action_view(self, request: HttpRequest, id: str, action: str) -> HttpResponse:
        if action not in ACTIONS:
            raise Http404(action)
        self.require(request, action)
        try:
            if action == "retry":
                beat.jobs.retry(id)
            else:
                beat.jobs.cancel(id, f"by {request.user.get_username()} in the admin")
            messages.success(request, ACTIONS[action].format(id))
        except OnbeatError as error:
            messages.error(request, str(error))
        address = reverse(
            "admin:onbeat_jobrecord_change", args=(id,), current_app=self.admin_site.name
        )
        return HttpResponseRedirect(address)

    def may(self, request: HttpRequest, action: str) -> bool:
        return bool(request.user.has_perm(f"onbeat.{action}_job"))

    def require(self, request: HttpRequest, action: str) -> None:
        if not self.may(request, action):
            raise PermissionDenied

    def answer(self, request: HttpRequest, template: str, **values: Any) -> HttpResponse:
        common = self.admin_site.each_context(request)
        return TemplateResponse(
            request, f"admin/onbeat/{template}", {**common, "opts": self.opts, **values}
        )
