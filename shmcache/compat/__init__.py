"""The interfaces of other libraries on top of ours, for users who come from there.

Owns one package for each. Must never hold logic of grammars or masks: that lies in the layers below.
"""
