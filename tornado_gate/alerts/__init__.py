"""Alerts: what an operator should know, noticed by timers and sent to webhooks, chats and mailboxes.

values     Alert, Notice: what is noticed, and what is sent
health     causes that a process sees itself: circuits, refused keys, a rejected configuration, the spool
accounts   causes in the database: budgets, expiring keys
present    all causes of now, for the timer and for /admin/v1
store      the tables: which alerts are active, which messages are due
texts      the bodies of messages, by type of sink
sending    one attempt to send a message
mail       the same by SMTP
watch      the timer of a process

Requests do not know of alerts: every cause is read from a state that exists anyway. Without sinks in conf, nothing here is
imported.
"""
