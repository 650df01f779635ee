"""agentos-platform's demo as an agent of its own: a waiter with a calculator, so many runs of it.

In ``AGENTOS_DEMO_MODE`` agentos answers by its own demo model, else ``OPENAI_BASE_URL`` does.
"""

import sys

from agentos.core.tool import tool
from agentos.governed_agent import GovernedAgent


@tool(description="Work out an amount")
def calculator(expression: str) -> str:
    return f"{expression} = 23"


def main(times):
    agent = GovernedAgent(name="waiter", model="gpt-4o-mini", tools=[calculator])
    for number in range(times):
        agent.run(f"Calculate 20 + 3 for table {number}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
