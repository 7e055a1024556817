"""Plans are carried out: the stages of a change of one Job, the writes that take it further, and what sends them."""
