"""DynamoDB requests of a new job, a duplicate and a message that is no job."""

import json

from tests.bench.candidates import Candidate, new_bodies
from tests.bench.figures import CallCounts
from tests.integration.ping import ping_message
from tests.support.dynamo import CallRecorder as Counter


def count(contender: Candidate) -> CallCounts:
    counter = Counter()
    counter.watch(contender.clients[0])

    def requests(body: str) -> int:
        counter.reset()
        contender.work([body])
        return len(counter.attempts)

    [body] = new_bodies(1)
    return CallCounts(
        new=requests(body),
        duplicate=requests(body),
        bad=requests(json.dumps(ping_message("seven"))),
    )
