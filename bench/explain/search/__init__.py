"""Where does a limit stop to hold? A search over settings whose every step is a function of the records before it."""
