"""The pipeline of one request, without HTTP: selects targets, tries them, and applies authentication, limits and circuits."""
