"""The way of a request through the gateway, without HTTP: targets are chosen and tried."""
