DROP TABLE user_sessions, memberships, users;
