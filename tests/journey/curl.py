"""The few options of curl that the README's commands use, for a machine that has no curl."""

import argparse
import sys

import urllib3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-s", "-S", action="store_true")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="body")
    options = parser.parse_args()
    headers = dict(line.split(": ", 1) for line in options.headers)
    method = "GET" if options.body is None else "POST"
    answer = urllib3.request(method, options.url, body=options.body, headers=headers)
    sys.stdout.write(f"{answer.data.decode()}\n{answer.status}\n")


if __name__ == "__main__":
    main()
