"""How a value of each declared type becomes plain JSON, and comes back.

``carrier`` says what a carrier is; ``plain`` carries what has no declaration,
``scalars``, ``containers``, ``records``, ``models`` and ``unions`` what is known here,
and ``foreign`` what a cattrs converter knows. ``annotations`` reads declarations and
``typenames`` prints them. The codec, one level up, chooses among them.
"""
