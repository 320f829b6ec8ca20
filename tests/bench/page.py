"""Renders docs/benchmarks.md from the figures."""

from typing import Final

from tests.bench.figures import PAGE, Figures
from tests.bench.goals import goal_rows
from tests.bench.tables import table

# The fault explorer writes its table between these, and it stays when the page is written again.
EXPLORER: Final = "<!-- the fault explorer's table -->"
EXPLORER_ENDS: Final = "<!-- the fault explorer's table ends -->"


def render(f: Figures) -> str:
    parts = (
        _goals,
        _meanings,
        _improvements_text,
        _schedules,
        _recoveries,
        _bill,
        _shipped,
        _powertools_advantages,
    )
    return "\n".join(part(f) for part in parts)


def _goals(f: Figures) -> str:
    lines = (
        (one.what, one.goal, one.oncely, one.powertools, "met" if one.is_met else "**missed**")
        for one in goal_rows(f)
    )
    return f"""# Benchmarks

Written by `make bench`, in one run: do not edit it.
The raw figures are in [benchmarks.json](benchmarks.json). Machine: {f.machine}.

Beside Oncely stands the same job on Powertools 3.37, put together as its documentation shows:
idempotency and batch, the business id as the key, the Lambda context registered, the message
validated first (`tests/bench/powertools_worker.py`).
Both run on the same local AWS, MiniStack, from the same process, taking turns.

![The batch, the ratios and the sweeps, drawn](benchmarks.svg)

## Goals and figures

{table(("what", "goal", "Oncely", "Powertools", ""), lines)}
"""


def _meanings(f: Figures) -> str:
    return f"""## What each means, and how it was measured

- **DynamoDB calls** are requests on the wire for the smallest job, a contract without rows of its
  own. Powertools needs as few. A bad message costs Oncely one message to the rejects queue, at
  once; with Powertools it is delivered again until it has become a dead letter.
- **CPU of a job** is process time: {f.cpu.milliseconds:.1f} ms with {f.cpu.aws_calls} AWS calls for
  Oncely, {f.powertools_cpu.milliseconds:.1f} ms with {f.powertools_cpu.aws_calls} for Powertools.
  The bare calls are the same requests, recorded and made again for other keys
  ({f.cpu.bare_milliseconds:.1f} and {f.powertools_cpu.bare_milliseconds:.1f} ms). Rounds take
  turns; the median of their ratios is shown.
- **Importing** happens at a cold start: {f.worker_import.milliseconds:.0f} ms for
  `oncely.handlers.process_queue`, {f.client.milliseconds:.0f} ms for
  `boto3.client("dynamodb")`; user time in fresh interpreters, taking turns. On Lambda the import
  also makes settings, clients and telemetry: that is **ready**, measured with the mail worker.
  The payments worker loads Stripe's SDK as well and stands at
  {f.stripe_worker_ready.ratio:.2f}. Powertools' figure has its one client in it.
- **The batch** waits {1000 * f.latency:.0f} ms for its provider in each of ten jobs. It took
  {1000 * f.batch.seconds:.0f} ms; {1000 * f.powertools_batch.seconds:.0f} ms on Powertools, whose
  batch processor works one record after the other. The best of a dozen each: other work on the
  machine only makes one longer. The same AWS calls and waits without an engine take
  {1000 * f.bare_batch.seconds:.0f} ms ({f.bare_batch.over_latency:.2f}); what is above 1.0 there is
  the SDK, and the local AWS on the same processors.
- **Items read** are DynamoDB's own count for one sweep of the reconciler with ten jobs due.

These are the times of one small machine that does other things as well. Figures of one run can be
compared with each other, those of two runs hardly. Six runs while this was written, with 6 to 15
processes wanting the two processors, gave 1.31 to 1.55 for the import, 1.11 to 1.14 for the CPU of
a job over Powertools' (four runs), and 1.22 to 1.60 for the best batch (four runs). What is within
a tenth of its goal is neither met nor missed for sure. Counts are exact.
"""


def _improvements_text(_: Figures) -> str:
    return """## What was done where a goal was missed

- **Batch**: five jobs ran side by side, so ten took two rounds, 2.0 at the least. Now all ten run
  at once, in fewer functions at a time: a provider sees no more calls than before.
- **Import**: it was 1.77, and 2.03 until ready. Messages and settings are built when first used,
  the services of other functions and boto3 itself are not imported, and the garbage collector
  rests in the init phase. Of what is left above boto3, pydantic and Powertools' logger, half is
  the making of some ninety frozen dataclasses, the answers and outcomes that the code is made of.
- **CPU**: rows do not go through the SDK's serializer, which inspects each value for every type.
  The SDK checks no request to DynamoDB, which does so itself, and has one name for all of them.
"""


def _recoveries(f: Figures) -> str:
    lines = ((one.died, str(one.sweeps), one.ended) for one in f.recoveries)
    return f"""## From a crash to a known state

A payment's worker dies at each of its calls. So many sweeps of the reconciler, one a minute once
the lease is over, bring the job to its end; in memory, and exact.

{table(("the worker died", "sweeps", "the job ended"), lines)}

On Powertools nothing looks for such a job: when its message comes again after the function's
timeout, the whole function runs again.
"""


def _bill(f: Figures) -> str:
    lines = [(one.what, f"{one.oncely:.2f}", f"{one.powertools:.2f}") for one in f.prices]
    total = ("**together**", f"**{_oncely(f):.2f}**", f"**{_powertools(f):.2f}**")
    return f"""## A million jobs, modelled

US dollars, without storage. Units, requests and log bytes are counted; [costs.md](costs.md) says
how, and has the other jobs. What the provider takes comes on top.

{table(("what", "Oncely", "Powertools"), [*lines, total])}
"""


def _shipped(f: Figures) -> str:
    lines = ((one.function, str(one.code), str(one.layers)) for one in f.shipped)
    return f"""## What each function ships

Zipped, in kilobytes. Layers are shared, and boto3 is Lambda's own.

{table(("function", "code", "layers"), lines)}
"""


def _schedules(_: Figures) -> str:
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    table = text.partition(EXPLORER)[2].partition(EXPLORER_ENDS)[0].strip()
    return f"""## The promise, under every schedule

The payment job through the fault explorer, and the same job on Powertools, by kind of wrong;
`make faults ARGS=--beside` writes the table, and prints a schedule of each kind to be played again.

{EXPLORER}
{table}
{EXPLORER_ENDS}
"""


def _powertools_advantages(f: Figures) -> str:
    return f"""## Where Powertools is the better choice

- It costs less: {_powertools(f):.1f} against {_oncely(f):.1f} dollars for a million jobs. It keeps
  no history, no index of what is due and no archive.
- A job takes less CPU ({f.powertools_cpu.milliseconds:.1f} ms against {f.cpu.milliseconds:.1f}).
- It is a decorator in a function that you have; Oncely is a stack that you deploy.
- Where doing the work twice does no harm, or the provider's own keys carry the whole promise, it
  is enough.
"""


def _oncely(f: Figures) -> float:
    return sum(price.oncely for price in f.prices)


def _powertools(f: Figures) -> float:
    return sum(price.powertools for price in f.prices)
