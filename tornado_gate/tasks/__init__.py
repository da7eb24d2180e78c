"""Tasks that outlive their request, and the process that took it: videos.

record     what is known of one task, as a value and as bytes
store      what any store of records promises
filestore  the store in a folder, with the other modules whose names begin with file
engine     begins, polls and ends tasks
"""
