"""DynamoDB requests of a new job, a duplicate and a message that is no job."""

import json

from tests.bench.contenders import Contender, fresh
from tests.bench.figures import Calls
from tests.integration.ping import ping
from tests.support.dynamo import Calls as Counter


def count(contender: Contender) -> Calls:
    """Every try on the wire, one message at a time."""
    counter = Counter()
    counter.watch(contender.clients[0])

    def requests(body: str) -> int:
        counter.forget()
        contender.work([body])
        return len(counter.tries)

    [body] = fresh(1)
    return Calls(
        new=requests(body), duplicate=requests(body), bad=requests(json.dumps(ping("seven")))
    )
