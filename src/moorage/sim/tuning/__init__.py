"""`moorage tune`: searches weights and arguments on one half of the input of an experiment, and judges on the other."""
