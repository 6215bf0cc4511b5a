"""Access control: may a principal do this operation on this resource? (`StandardAuthorizer`)

In: ACLs from metadata deltas (`acl_publisher.py`), and the actions that requests need. Out: allowed
or denied, for each action.

`auth_helper.py` is what request handlers call, `authorizer.py` is the interface between them and an
authorizer, `standard_authorizer.py` decides, and `acl_index.py` finds the rules that may matter.

Start reading: `standard_authorizer.py`.

Brokers (`server`) and the controller import this; each node has an authorizer of its own. The room
`controller` answers DescribeAcls, CreateAcls and DeleteAcls with `acl_filter.py` and
`acl_descriptions.py`.
"""
