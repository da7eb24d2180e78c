"""Video tasks, which outlive the request that creates them and the process that receives it.

service           what callers do with tasks
engine, run       runs the tasks of a store; the life of one task
translation       the translation of a request, from its creation to its start
provider_client   calls the provider of a task
webhook_sender    sends the webhook of a task that has ended; webhook_secrets has the secret of each account
record, view      the record of a task, and the task as its owner sees it
request_image     the image of a request
store             the interface of a task store
opening           the task store of conf
file_store        the task store in a folder; its parts are the other modules named file_*
database_store    the task store in a database; its parts are the other modules named database_*
video_check       the check of a video while it is downloaded
"""
