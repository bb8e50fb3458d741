"""What an evaluation costs is its own part of the processor's time, not that of others."""

import threading
import time

from omnigraph.ops.evaluation_cost import MAX_QUEUED_SECONDS, EvaluationCost


def work(seconds: float) -> None:
    """Keep the processor busy for so long in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_long_evaluation_is_not_quick() -> None:
    with EvaluationCost() as cost:
        work(1.2 * MAX_QUEUED_SECONDS)

    assert not cost.is_quick


def test_work_of_other_threads_is_not_counted() -> None:
    """They share the processor: each takes longer, and costs what it would cost alone."""
    costs: list[EvaluationCost] = []
    begun = threading.Barrier(8)

    def evaluate() -> None:
        with EvaluationCost() as cost:
            begun.wait()
            work(0.03)
            begun.wait()
        costs.append(cost)

    threads = [threading.Thread(target=evaluate) for _ in range(8)]
    start = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.process_time() - start > 2 * MAX_QUEUED_SECONDS
    assert all(cost.is_quick for cost in costs)


def test_time_that_others_have_the_processor_does_not_matter() -> None:
    with EvaluationCost() as cost:
        time.sleep(2 * MAX_QUEUED_SECONDS)

    assert cost.is_quick
