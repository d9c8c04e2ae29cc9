"""What a damaged recording says: no figure differs from that of the intact one without a note that concerns it.

``kinds`` damages copies of a recording in ways that a file system, a copy or a tool has of losing or repeating data;
``figures`` gathers every figure that a profile answers with, and the notes that concern each; ``compare`` tells which
figures changed in silence.
"""
