from backoffice.schema import migrate
from world import World


def test_the_tables_can_be_made_again(world: World) -> None:
    before = world.rows("SHOW TABLES")
    world.do(migrate)
    assert world.rows("SHOW TABLES") == before
    assert ("charges",) in before
