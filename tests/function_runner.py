"""A function's process as the platform runs it: import the module, then one event after another.

Started by ``tests.function_process``: ``python -m tests.function_runner <module> <descriptor>``.
What a handler raises is printed as the platform would log it; stdout and stderr are the log.
"""

import importlib
import json
import logging
import os
import sys
import time
import traceback


class Context:
    """What a handler reads of its invocation."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    log_stream_name = "2026/01/02/[$LATEST]0123456789abcdef"
    function_name = "function"

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(int((self._ends_at - time.monotonic()) * 1000), 0)


def main() -> None:
    module, descriptor = sys.argv[1], int(sys.argv[2])
    logging.basicConfig(stream=sys.stdout)  # the platform writes whatever any library logs
    with os.fdopen(descriptor, "w") as answers:
        handler = importlib.import_module(module).handler
        print(json.dumps({"imported": sorted(sys.modules)}), file=answers, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = {"answer": handler(request["event"], Context(request["seconds"]))}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": type(error).__name__, "message": str(error)}
            sys.stdout.flush()
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
