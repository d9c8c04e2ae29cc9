"""How sure a difference of times is: one model for every "slower". It knows arrays, and nothing of profiles."""
