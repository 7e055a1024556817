"""The stages: discover → advertise → allocate → inject → publish, meter → reclaim, and the agent's loop over them."""
