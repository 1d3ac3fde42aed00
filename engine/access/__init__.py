"""Who may do what: principals, roles, and the file that says how they prove themselves.

Values and decisions on them. What is presented to a host is checked in `flight_server.identity`.
"""
