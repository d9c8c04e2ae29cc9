"""What users read: texts, quantities with units, commands that can be pasted, and the glossary."""
