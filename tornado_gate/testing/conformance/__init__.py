"""The conformance kit. It drives an installed plugin through a real pipeline and reports the results.

`run.check_plugin` checks one plugin and returns a `report.PluginReport`; ``tornado-gate plugins check`` prints it. The
gateway runs in the process, and the upstream responds over a real socket. No network and no key is needed.
"""
