"""The conformance kit: drives an installed plugin through a real pipeline and reports what works.

`run.check_plugin` checks one plugin and returns a `report.PluginReport`; ``tornado-gate plugins check`` prints it. The gateway
runs in the process, the upstream answers over a real socket; no network and no key is needed.
"""
