"""More seeds than the test takes, or one again: ``python -m tests.simulation``.

Owns the command line of the simulation.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.simulation import Simulation, naming, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--simulation-seed", type=int, help="run this seed only")
    parser.add_argument("--first", type=int, default=0, help="first seed of many")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run seeds (default: %(default)s)")
    parser.add_argument("--trace", action="store_true", help="with --simulation-seed: print what happens")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.simulation_seed is not None:
        simulation = Simulation(options.simulation_seed)
        if options.trace:
            simulation.trace = []
        try:
            with naming(options.simulation_seed):
                sys.stdout.write(f"{simulation.run()}\n")
        finally:
            sys.stdout.write("\n".join(simulation.trace or []) + "\n")
        return 0
    deadline, seed = time.monotonic() + options.seconds, options.first
    while time.monotonic() < deadline:
        run_seed(seed)
        seed += 1
    sys.stdout.write(f"seeds {options.first} to {seed - 1} hold\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
