"""Coding agents, run unattended against the gateway: ``make agents``.

Each agent is installed from npm at the version in package.json and runs in an empty home folder. It talks to a gateway process,
whose models are at mock upstreams in another process. The mocks speak each vendor's wire format, refuse what the vendor refuses,
and act as a model that makes the agent work: it writes, edits and reads files. `scenarios` has what the model does and what it
expects to get.
"""
