"""A LangGraph agent with two tools and a model behind an OpenAI-compatible endpoint."""

import os
import random
import sys
import time

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def look_up(order: int) -> dict:
    """An order."""
    return {"order": order, "total": 25.0 * order, "at": time.time()}


@tool
def rate(currency: str) -> str:
    """What a currency costs."""
    return f"{currency} {random.random():.3f}"


TOOLS = [look_up, rate]
MODEL = ChatOpenAI(
    model="scripted-1", base_url=os.environ["MODEL_URL"], api_key="sk-a-key-of-nobody-000000"
).bind_tools(TOOLS)


def think(state: MessagesState):
    return {"messages": [MODEL.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("tools", ToolNode(TOOLS))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition, ["tools", END])
graph.add_edge("tools", "think")
agent = graph.compile()

if __name__ == "__main__":
    found = agent.invoke({"messages": [("system", "Be brief."), ("user", sys.argv[1])]})
    print(found["messages"][-1].content)
