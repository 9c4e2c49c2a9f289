"""Many customers at once, each a workspace with one user, one subscription and one card."""

from datetime import datetime

from world import NOW, SINCE, World


def customers(
    world: World, number: int, *, token: str = "pm_card_visa", stripe_id: str | None = None
) -> int:
    """All on one new plan of 24.99 a month; its id. Their ids are 1 to `number`."""
    plan = world.plan()
    ids = range(1, number + 1)
    users = [(id, f"user{id}@example.com", stripe_id) for id in ids]
    world.many("INSERT INTO users (id, email, stripe_id) VALUES (?, ?, ?)", users)
    workspaces = [(id, f"Workspace {id}", id, NOW) for id in ids]
    world.many(
        "INSERT INTO workspaces (id, name, creator_id, created_at) VALUES (?, ?, ?, ?)", workspaces
    )
    world.many(
        "INSERT INTO workspaces_users (workspace_id, user_id) VALUES (?, ?)",
        [(id, id) for id in ids],
    )
    subscribe(world, number, plan, SINCE)
    world.many(
        "INSERT INTO users_cards (workspace_id, user_id, `primary`, stripe_payment_method_id,"
        " exp_month, exp_year, last_4) VALUES (?, ?, 1, ?, 12, 2030, '4242')",
        [(id, id, token) for id in ids],
    )
    return plan


def subscribe(world: World, number: int, plan: int, at: datetime) -> None:
    world.many(
        "INSERT INTO subscriptions (id, created_at, updated_at, workspace_id, current_plan_id,"
        " billing_cycle, status) VALUES (?, ?, ?, ?, ?, 'MONTHLY', 'ACTIVE')",
        [(id, at, at, id, plan) for id in range(1, number + 1)],
    )
