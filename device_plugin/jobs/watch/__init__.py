"""The Jobs of queues and their pods, as the watches show them."""
