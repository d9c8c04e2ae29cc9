"""Analysis: functions from the tables of a run to smaller tables; they neither read files nor show anything."""
