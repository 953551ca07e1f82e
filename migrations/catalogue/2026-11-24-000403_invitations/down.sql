DROP TABLE user_invitations;
