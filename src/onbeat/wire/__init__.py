"""The one outer form: JSON on one side, records on the other."""
