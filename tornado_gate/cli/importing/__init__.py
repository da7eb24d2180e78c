"""Import the configuration of another gateway: one module per source, over one builder of conf.

Only the command uses this package. The facts about the sources' formats are from their repositories, read in November 2026:
BerriAI/litellm, QuantumNous/new-api, songquanpeng/one-api, Portkey-AI/gateway, maximhq/bifrost.
"""
