"""Where the texts of the wire formats are: one module for each vendor's family of bodies (`types/text_maps.py`).

The modules import no other part of `wire`, because the server needs the maps with the routes, at its start.
"""
