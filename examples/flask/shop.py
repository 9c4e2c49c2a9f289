"""A shop whose views send jobs: `flask --app shop run` beside `onbeat up shop.py`."""

import os

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue

from onbeat import Onbeat
from onbeat.ext.flask import current_beat, init_app

beat = Onbeat(os.environ.get("STORE", "sqlite:///onbeat.db"))


@beat.task("order.confirm")
def confirm(order: int) -> str:
    return f"order {order} is confirmed"


app = Flask(__name__)
init_app(app, beat)


@app.post("/orders/<int:order>")
def add_order(order: int) -> ResponseReturnValue:
    job = confirm.send(order)
    return {"job": job.id}, 202


@app.get("/jobs/<id>")
def show_job(id: str) -> ResponseReturnValue:
    return jsonify(current_beat.jobs.get(id))


@app.get("/")
def page() -> ResponseReturnValue:
    """What the jobs of the shop do, for people."""
    jobs = current_beat.jobs.list(task="order.confirm", limit=20)
    rows = "".join(f"<tr><td>{job.id}<td>{job.state.value}<td>{job.attempt}" for job in jobs)
    return f"<!doctype html><title>Orders</title><table><tr><th>Job<th>State<th>Try{rows}</table>"
