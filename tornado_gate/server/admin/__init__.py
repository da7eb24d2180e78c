"""The administration API: /admin/v1, and the views of the gateway's state that it shares with the console."""
