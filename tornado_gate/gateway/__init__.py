"""The way of one request from route to upstream and back, and the policies it obeys."""
