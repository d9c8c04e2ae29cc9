"""The explorer's state and answers as plain objects: what is shown, selected and found, without any widget."""
