"""One number for a whole world: two schedules that meet in it go on alike."""

from oncely.testing.world import World


class States:
    """Digests of one world as it changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outside = 0
        self._at_changes = -1

    def now(self) -> int:
        """A digest of everything that what follows depends on."""
        world = self._world
        schedule = world.schedule
        actors = (schedule.current, *schedule.waiting, None, *schedule.asleep)
        return world.digest(
            (
                schedule.now,
                world.phase,
                world.edited,
                self._of_outside(),
                [(one.body, one.visible_at, one.receives) for one in world.letters.held],
                world.stream,
                world.sweeps,
                [(one.at, one.what) for one in world.landings],
                [one and (one.history, one.in_flight_until, one.last_moment) for one in actors],
            )
        )

    def _of_outside(self) -> int:
        """What is outside the actors changes at few calls: it is not digested at the others."""
        world = self._world
        if self._at_changes != world.points.changes:
            self._at_changes = world.points.changes
            services = world.services
            self._outside = world.digest(
                (
                    world.store.jobs,
                    world.store.business.rows,
                    world.providers,
                    services.archive.jobs,
                    services.alerts.told,
                    world.answers,
                )
            )
        return self._outside
