"""Reports: one HTML file that needs nothing else, and figures as SVG files.

``openb`` and ``runs`` say what is shown of results, ``intervals`` how sure it is, ``plots`` draws, ``page`` lays out.
"""
