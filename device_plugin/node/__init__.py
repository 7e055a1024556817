"""The node agent: discover → advertise → allocate → inject → meter → reclaim, for the cards of one node."""
