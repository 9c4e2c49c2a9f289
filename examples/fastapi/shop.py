"""A shop whose API sends jobs, and runs them itself: `uvicorn shop:app`."""

import os

from fastapi import FastAPI

from onbeat import Onbeat
from onbeat.ext.fastapi import Beat, Mounted, answer_errors, lifespan
from onbeat.types import JobInfo

beat = Onbeat(os.environ.get("STORE", "sqlite:///onbeat.db"))


@beat.task("order.confirm")
async def confirm(order: int) -> str:
    return f"order {order} is confirmed"


app = FastAPI(lifespan=lifespan(beat))
answer_errors(app)
app.mount("/onbeat", Mounted(beat, keys=[os.environ.get("KEY", "admin-key-of-the-example-01")]))


@app.post("/orders/{order}", status_code=202)
async def add_order(order: int) -> dict[str, str]:
    job = await confirm.asend(order)
    return {"job": job.id}


@app.get("/jobs/{id}")
async def show_job(id: str, beat: Beat) -> JobInfo:
    return await beat.jobs.aget(id)


@app.get("/jobs")
async def list_jobs(beat: Beat):
    return await beat.jobs.alist(limit=20)
