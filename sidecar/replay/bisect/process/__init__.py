"""Commits, worktrees and oracles: everything of a bisection that starts a process."""
